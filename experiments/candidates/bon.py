import sys; sys.path.insert(0,'experiments/candidates')
from tok import *
T=pd.read_parquet(__import__('os').environ['WORK']+'/bon-test.parquet'); T=T.reset_index(drop=True); T['k']=T.groupby('problem_id').cumcount(); 
OK=T.correct.to_numpy(); BAD=(~T.correct & ~T.is_truncated & (T.first_flaw_kind.notna()|True)).to_numpy()
def bon(sc,n):
    g=T.assign(s=sc,g=T.k//n)
    h=g[OK].groupby(['problem_id','g']).s.max(); s=g[BAD].groupby(['problem_id','g']).s.idxmax()
    t=h.quantile(.05); acc=(g.s.loc[s]>t)
    return acc.mean(), s, acc, len(h)
def show(sc):
    sc=np.asarray(sc); t=np.quantile(sc[OK],.05)
    r=[f"static {np.mean(sc[BAD]>t):.2f}"]
    for n in (8,32): r.append(f"bon{n} {bon(sc,n)[0]:.2f}")
    return ' '.join(r)
if __name__=='__main__':
    rows=enc(T)
    for nm in ('untrained','sft150'):
        m=AutoModelForCausalLM.from_pretrained(V)
        if nm!='untrained': m.load_state_dict(torch.load(__import__('os').environ['WORK']+f'/{nm}.pt'))
        m.eval(); f=feats(m,rows)
        for a,fn in AGG.items():
            sc=[fn(*x) for x in f]; print(nm,a,show(sc),flush=True)
        for a in ('mean','min_line','reg_min_line'):
            sc=np.array([AGG[a](*x) for x in f]); acc,s,ok,_=bon(sc,32); k=T.loc[s].assign(a=ok.values).groupby('first_flaw_kind').a.agg(['mean','size']); print(a, k.round(2).to_dict('index'))
