"""Token-level features of LM verifiers on test pools; aggregators compared."""
import sys, time
from pathlib import Path
import numpy as np, pandas as pd, torch, torch.nn.functional as F
torch.set_num_threads(1)
from transformers import AutoModelForCausalLM, AutoTokenizer
V='pvg_hf/assets/arithmetic-verifier'
tok=AutoTokenizer.from_pretrained(V); tok.padding_side='right'
RUN=Path(__import__('os').environ['WORK']+'/runs/q-likelihood-seed-0')
def enc(df):
    rows=[]
    for p,s in zip(df.problem,df.solution):
        a=tok(p+"\n").input_ids; b=tok(s).input_ids
        if b and b[-1]!=1: b=b+[1]
        if a[-1]==1: a=a[:-1]
        rows.append((a,b))
    return rows
def batch(rows):
    L=max(len(a)+len(b) for a,b in rows); ids=torch.zeros(len(rows),L,dtype=torch.long); m=torch.zeros_like(ids); sol=torch.zeros(len(rows),L,dtype=torch.bool)
    for i,(a,b) in enumerate(rows):
        ids[i,:len(a)+len(b)]=torch.tensor(a+b); m[i,:len(a)+len(b)]=1; sol[i,len(a):len(a)+len(b)]=True
    return ids,m,sol
def sft(model,rows,steps,lr=1e-3,bs=32,seed=0):
    opt=torch.optim.AdamW(model.parameters(),lr=lr); g=np.random.default_rng(seed); model.train()
    for s in range(steps):
        for gr in opt.param_groups: gr['lr']=lr*min(1,(s+1)/20)*max(.05,1-s/steps)
        ids,m,sol=batch([rows[i] for i in g.integers(len(rows),size=bs)])
        lg=model(input_ids=ids,attention_mask=m).logits[:,:-1]
        lp=F.cross_entropy(lg.transpose(1,2),ids[:,1:],reduction='none'); w=sol[:,1:]
        loss=(lp*w).sum()/w.sum(); loss.backward(); torch.nn.utils.clip_grad_norm_(model.parameters(),1.); opt.step(); opt.zero_grad()
        if s%50==0: print(s,round(loss.item(),3),flush=True)
    model.eval()
@torch.no_grad()
def feats(model,rows):
    out=[None]*len(rows); order=sorted(range(len(rows)),key=lambda i:len(rows[i][0])+len(rows[i][1]))
    for k in range(0,len(order),64):
        idx=order[k:k+64]; ids,m,sol=batch([rows[i] for i in idx])
        lsm=model(input_ids=ids,attention_mask=m).logits[:,:-1].float().log_softmax(-1)
        lp=lsm.gather(-1,ids[:,1:,None])[...,0]; mx=lsm.amax(-1); ent=-(lsm.exp()*lsm).sum(-1)
        for j,i in enumerate(idx):
            w=sol[j,1:]; t=ids[j,1:][w].numpy(); out[i]=(t,lp[j][w].numpy(),mx[j][w].numpy(),ent[j][w].numpy())
    return out
def lines(t,x):
    e=(t==3); k=np.cumsum(e)-e; return np.bincount(k,weights=x)
def softmin(x,T): return -T*np.log(np.mean(np.exp(-x/T)))
AGG={
 'mean':lambda t,l,m,e:l.mean(),
 'sum':lambda t,l,m,e:l.sum(),
 'min_tok':lambda t,l,m,e:l.min(),
 'min_line':lambda t,l,m,e:lines(t,l).min(),
 'reg_mean':lambda t,l,m,e:(l-m).mean(),
 'reg_sum':lambda t,l,m,e:(l-m).sum(),
 'reg_min_tok':lambda t,l,m,e:(l-m).min(),
 'reg_min_line':lambda t,l,m,e:lines(t,l-m).min(),
 'ent_min_tok':lambda t,l,m,e:(l+e).min(),
 'ent_sum':lambda t,l,m,e:(l+e).sum(),
 'low3':lambda t,l,m,e:np.sort(l)[:3].sum(),
 'reg_low3':lambda t,l,m,e:np.sort(l-m)[:3].sum(),
}
def table(fh,fs,probs=None):
    from scipy.stats import mannwhitneyu
    r={}
    for n,f in AGG.items():
        sh=np.array([f(*x) for x in fh]); ss=np.array([f(*x) for x in fs]); t=np.quantile(sh,.05)
        auc=mannwhitneyu(sh,ss).statistic/len(sh)/len(ss)
        r[n]=f"{np.mean(ss>t):.2f}/{auc:.3f}"
    return r
def pools():
    out={}
    for root in sorted(Path(__import__('os').environ['WORK']+'/runs').iterdir()):
        for pool in sorted((root/'pool').iterdir()):
            if pool.name=='base' and root!=RUN: continue
            if not (pool/'test-helpful.parquet').exists(): continue
            h,s=(pd.read_parquet(pool/f'test-{r}.parquet') for r in ('helpful','sneaky'))
            h=h[h.correct]; s=s[~s.correct & (s.outcome!='NO_ANSWER') & ~s.is_truncated]
            out[root.name.replace('-seed-0','')+'/'+pool.name[-3:]]=(h,s)
    return out
if __name__=='__main__':
    base=pd.read_parquet(RUN/'pool/base/base.parquet'); base=base[base.part=='verifier']
    good=enc(base[base.correct]); 
    ref=base.drop_duplicates('problem_id'); ref=ref.assign(solution=ref.reference); refs=enc(ref)
    print(len(good),len(refs))
    m=AutoModelForCausalLM.from_pretrained(V)
    P={k:(enc(h),enc(s)) for k,(h,s) in pools().items()}
    def rep(tag):
        for k,(h,s) in P.items(): print(tag,k,len(h),len(s),table(feats(m,h),feats(m,s)),flush=True)
    rep('untrained'); t0=time.time()
    sft(m,good,150); print(time.time()-t0); rep('sft150')
    torch.save(m.state_dict(),__import__('os').environ['WORK']+'/sft150.pt')
