import sys; sys.path.insert(0,'experiments/candidates')
import tok as K
from tok import *
from bon import T,OK,BAD,bon,show
def kinds(m,tag,aggs=('mean','reg_mean','min_line')):
    h,s=pools()['q-likelihood/ase']; fh,fs=feats(m,enc(h)),feats(m,enc(s))
    R=s.drop_duplicates('problem_id').assign(solution=lambda d:d.reference); fr=feats(m,enc(R))
    print(tag,'ref nll/token',-np.mean(np.concatenate([x[1] for x in fr])).round(4),'share of refs with every token p>.3 after regret', np.mean([ (x[1]-x[2]).min()>-1 for x in fr]).round(3), table(fh,fs))
    for n in aggs:
        f=AGG[n]; sh=np.array([f(*x) for x in fh]); ss=np.array([f(*x) for x in fs]); t=np.quantile(sh,.05)
        g=s.assign(a=ss>t).groupby('first_flaw_kind').a.mean().round(2).to_dict(); print('   ',n,g)
    f=feats(m,enc(T))
    print('   ',{n:show([AGG[n](*x) for x in f]) for n in aggs},flush=True)
if __name__=='__main__':
    if sys.argv[1]=='big':
        K.V=V2='pvg_hf/assets/arithmetic-prover'
        m=AutoModelForCausalLM.from_pretrained(V2).eval(); kinds(m,'prover LM')
    else:
        steps,lr,w=int(sys.argv[2]),float(sys.argv[3]),int(sys.argv[4])
        base=pd.read_parquet(RUN/'pool/base/base.parquet'); base=base[base.part=='verifier']
        good=enc(base[base.correct]); ref=base.drop_duplicates('problem_id'); refs=enc(ref.assign(solution=ref.reference))
        m=AutoModelForCausalLM.from_pretrained(sys.argv[5] if len(sys.argv)>5 else V); t0=time.time(); c0=time.process_time()
        sft(m,(good if w<100 else [])+refs*w,steps,lr=lr); print('cpu',time.process_time()-c0)
        kinds(m,f'sft {sys.argv[2:]}'); torch.save(m.state_dict(),__import__('os').environ['WORK']+f'/sft-{"-".join(sys.argv[2:5])}.pt')
